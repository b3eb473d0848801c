"""Jobs for commands: written, submitted, checked."""
