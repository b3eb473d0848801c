"""What tests of three files and more share; what one room alone needs lies in it."""
