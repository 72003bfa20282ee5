#!/bin/sh
# version.sh VERSION prints it as dpkg and rpm order it: v1.2.0-rc.1, which comes before v1.2.0, as 1.2.0~rc.1, and what git
# makes of the fifth commit after v1.2.0, v1.2.0-5-g9bcc79a, as 1.2.0+5.g9bcc79a.
echo "${1#v}" | sed -E 's/-([0-9]+)-g([0-9a-f]+)/+\1.g\2/; s/-dirty$/+dirty/; s/-/~/; s/-/./g'
