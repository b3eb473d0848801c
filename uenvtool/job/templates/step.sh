@BINDING@srun -l@NODES@@CORES@ --cpu-bind=@BIND@@SRUN@ @STEP@bash -c '
@INSIDE@@LAUNCH@' @NAME@ "${command[@]}"@AFTER@
