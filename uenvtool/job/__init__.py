"""Jobs: what is written for each runtime, and a shell or a command beside the rank of a running one."""
