  export @RANK@
  exec "$@"
