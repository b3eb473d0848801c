"""Code that every other package uses: errors, results, the console, external programs, files and quoting."""
