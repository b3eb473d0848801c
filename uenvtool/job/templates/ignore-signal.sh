  trap "" USR1 # torchrun itself ignores the signal; the ranks get it too
