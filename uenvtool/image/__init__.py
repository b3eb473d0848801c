"""squashfs images: a tree packed and read back, an image opened, the metadata that makes it a uenv."""
