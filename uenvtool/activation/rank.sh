case ${SLURM_JOB_ID-}. in .) echo "uenvtool: RANK is unset: not a Slurm job" >&2; exit 1 ;; esac;
ue_rest=${SLURM_STEP_NODELIST:-${SLURM_JOB_NODELIST:-localhost}}; ue_node="";
while ue_part=${ue_rest%%[[,]*}; ue_node=$ue_node$ue_part; ue_rest=${ue_rest#"$ue_part"}; do
case $ue_rest in "["*) ;; *) break ;; esac;
ue_rest=${ue_rest#"["}; ue_node=$ue_node${ue_rest%%[],-]*}; ue_rest=${ue_rest#*"]"}; done;
export MASTER_ADDR="${MASTER_ADDR:-$ue_node}" NNODES="${SLURM_STEP_NUM_NODES:-${SLURM_NNODES:-1}}";
export MASTER_PORT="${MASTER_PORT:-@PORT@}";
if test "${SLURM_STEP_NUM_TASKS-}"; then export PET_NNODES="$NNODES" PET_NODE_RANK="${SLURM_NODEID-0}";
export @RANK@;
export @TASKS@;
export PET_MASTER_ADDR="$MASTER_ADDR" PET_MASTER_PORT="$MASTER_PORT";
else echo "uenvtool: RANK is unset: not started by srun; MASTER_ADDR, MASTER_PORT, NNODES are set" >&2; fi;
exec "$0" "$@"
