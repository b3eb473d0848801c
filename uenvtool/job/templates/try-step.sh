mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
declare -A address=(["${nodes[0]}"]="$MASTER_ADDR") # of a node, if it is not the node's name
stop='' # a rank that fails ends the other ranks of its test
@TEST_ON@ranks_of_tests=@RANKS@ gpus_of_rank=1
