"""The check of batch scripts and EDFs: a file is read into parts, and each rule is held against them."""
