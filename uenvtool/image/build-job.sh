#!/bin/bash
@DIRECTIVES@
# Made by uenvtool, again: @AGAIN@
# A node that dies loses the package that it builds; the others go on. Queued again, the job goes on where it was.
build=(@BUILD@)

@SHARE@"${build[@]}" # what is left, then the view and the image
