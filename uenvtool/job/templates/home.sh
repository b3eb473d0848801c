# HOME in the container is a directory that disappears with the container. To keep the caches of Hugging Face, torch.hub
# and pip, write the job again with --mount DIR and --env HF_HOME, TORCH_HOME and XDG_CACHE_HOME set to directories in DIR.
