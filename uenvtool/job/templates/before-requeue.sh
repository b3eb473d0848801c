trap 'again=1; kill -USR1 "$step"' USR1 # Slurm sends USR1 two minutes before the time limit
