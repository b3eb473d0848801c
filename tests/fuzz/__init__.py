"""Tests with hostile and damaged input, which must never cause a crash. Counts are limited, and seeds are fixed."""
