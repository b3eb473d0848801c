"""The work of `uenvtool image`: what an image is made of, checked, compared, and as a bill of materials."""
