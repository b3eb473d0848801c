"""`uenvtool edit`: a user's recipe is changed, and every byte that the change is not about stays."""
