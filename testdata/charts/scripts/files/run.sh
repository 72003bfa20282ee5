#!/bin/sh
set -eu
curl_target=$1
echo "checking $curl_target"
