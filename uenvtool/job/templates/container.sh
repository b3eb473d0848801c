image=@IMAGE@
binds=@BINDS@
@CHECK@
