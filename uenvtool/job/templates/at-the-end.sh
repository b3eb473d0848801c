trap '@PARTS@' EXIT # also if training fails
