"""Checker for batch scripts and EDFs, which parses a file into parts and applies each rule to them."""
