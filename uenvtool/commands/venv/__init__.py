"""`uenvtool venv`: order <- plan <- build, image, target <- make; results apart from the work; report shows them."""
