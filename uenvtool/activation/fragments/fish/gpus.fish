set -l ue_runai_gpus (string match -r -- '^[0-9]+$' "$RUNAI_NUM_OF_GPUS")
