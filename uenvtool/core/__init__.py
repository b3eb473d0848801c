"""What every part uses: errors, results, the console, and the doors for processes, files and quoting."""
