{ # the facts of this run, for `uenvtool diff`; a value that may be a secret is hidden
  printf '%s\n' @FACTS@ \
    "nodes=@NODES@" "git commit=$(timeout 5 git describe --always --dirty --exclude '*')"
  sed -n 's/^NVRM version: .*  \([0-9][0-9.]*\)  .*/driver=\1/p' /proc/driver/nvidia/version
@FILES@  env | sort | sed -nE '/^(UENV_MOUNT_LIST=|(@NAMES@)_)/ {
    s#//[^/@ ]+@#//#g
    /@SENSITIVE@/I!{
      /^\w+=((@WORD@)([-_.,:;\/| @^=]|$))*$/{p;d}
    }
    s/=.*/=(hidden)/p
  }'
} >"$LOGS/run.txt" 2>/dev/null || :
