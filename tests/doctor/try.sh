#!/bin/sh
# Doctor's report, then a ping-pong with both processes on this host:
#
#   try.sh VERBENA PORT
#
# prints doctor's JSON, a line "doctor STATUS", the output of both processes, and a line "pingpong STATUS" for each.
# Nothing is written anywhere: the root may be read-only.
verbena=$1
pingpong="$verbena run -- ibv_rc_pingpong -c -d verbena0 -p $2"

"$verbena" doctor --json
echo "doctor $?"
$pingpong 2>&1 &
server=$!
# Refused until the server listens; one that has ended will never.
until said=$($pingpong 127.0.0.1 2>&1); do
	if ! kill -0 $server 2> /dev/null; then
		gone=1
		break
	fi
done
echo "$said"
echo "pingpong ${gone:-0}"
wait $server
echo "pingpong $?"
