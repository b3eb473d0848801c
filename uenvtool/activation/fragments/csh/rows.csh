# What the table wants beside defaults is noted as VERB NAME @VALUE @TEXT, and done after it.
set ue_todo = ( )
