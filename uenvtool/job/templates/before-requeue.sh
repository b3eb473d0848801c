trap 'again=1; kill -USR1 "$step"' USR1 # two minutes before the limit
