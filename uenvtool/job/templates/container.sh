@HOME@image=@IMAGE@
binds=@BINDS@
@CHECK@
