# Simulates machines with network namespaces, as root: each has a link to one switch, with bandwidth and delay.
#     sh tests/bench/scale_net.sh up COUNT RATE DELAY     such as 4 1gbit 50us, for each link into the switch; RATE 0:
#                                                         unlimited
#     sh tests/bench/scale_net.sh down
#     sh tests/bench/scale_net.sh mpirun COUNT COMMAND... a rank in each
# In a kernel without netem, a DELAY needs SCALE_LINK, the program built from scale_link.c, as the switch.
# Open MPI starts its daemons with this script instead of ssh.
set -eu
net=10.77.21
name=tfm-scale
self=$(realpath "$0")
# shape I RATE DELAY: with netem, else only the rate, with a token bucket
shape() {
    ip netns exec $name-"$1" tc qdisc add dev eth0 root netem delay "$3" rate "$2" limit 100000 2>/dev/null ||
        { [ "$3" = 0 ] && ip netns exec $name-"$1" tc qdisc add dev eth0 root tbf rate "$2" burst 256k latency 100ms; } ||
        { echo "scale_net.sh: this kernel has no netem: give a DELAY of 0, or SCALE_LINK" >&2 && exit 1; }
}
# number TEXT: converts "1gbit" to bits per second, "50us" to seconds
number() {
    echo "$1" | awk '{ unit = $1; sub(/^[0-9.]*/, "", unit); scale["gbit"] = 1e9; scale["mbit"] = 1e6; scale["us"] = 1e-6
        scale["ms"] = 1e-3; printf "%.9g\n", $1 * (unit in scale ? scale[unit] : 1) }'
}
address() { # address I: of eth0 in namespace I
    ip -n $name-"$1" addr add $net."$1"/24 dev eth0
    ip -n $name-"$1" link set eth0 up
    ip -n $name-"$1" link set lo up
}
# The switch is a program; its process id is in a file next to the namespaces.
up_by_program() { # up_by_program COUNT RATE DELAY
    for i in $(seq "$1"); do
        ip netns add $name-"$i"
    done
    "$SCALE_LINK" "$1" "$(number "$2")" "$(number "$3")" $name >"/run/$name.ready" &
    echo $! >"/run/$name.pid"
    while ! grep -qs ready "/run/$name.ready"; do
        kill -0 "$(cat "/run/$name.pid")"
        sleep 0.05
    done
    for i in $(seq "$1"); do
        address "$i"
    done
}
case ${1-} in
up)
    sh "$self" down
    if [ "$4" != 0 ] && [ -n "${SCALE_LINK-}" ]; then
        up_by_program "$2" "$3" "$4"
        exit
    fi
    ip netns add $name
    ip -n $name link add switch type bridge
    ip -n $name link set switch up
    for i in $(seq "$2"); do
        ip netns add $name-"$i"
        ip -n $name link add port"$i" type veth peer name eth0 netns $name-"$i"
        ip -n $name link set port"$i" master switch up
        address "$i"
        [ "$3" = 0 ] || shape "$i" "$3" "$4"
    done
    ;;
down)
    if [ -e "/run/$name.pid" ]; then
        kill "$(cat "/run/$name.pid")" 2>/dev/null || :
        rm -f "/run/$name.pid" "/run/$name.ready"
    fi
    for i in $(ip netns list | sed -n "s/^\(${name}[-0-9]*\).*/\1/p"); do
        ip netns del "$i"
    done
    ;;
mpirun)
    count=$2
    shift 2
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # namespaces need root
    hosts=$(seq -s , -f "$net.%g:1" "$count")
    # shellcheck disable=SC2016 # unshare's shell expands it
    exec ip netns exec $name-1 unshare -u sh -c 'hostname "$0"; exec "$@"' $net.1 \
        mpirun -n "$count" --host "$hosts" --mca plm_rsh_agent "sh $self" --mca btl tcp,self --mca btl_tcp_if_include $net.0/24 \
        --mca oob_tcp_if_include $net.0/24 --mca pml ob1 --mca coll ^hcoll,sm --bind-to none "$@"
    ;;
$net.*)
    host=$1
    shift
    # shellcheck disable=SC2016
    exec ip netns exec $name-"${host##*.}" unshare -u sh -c 'hostname "$0"; exec sh -c "$*"' "$host" "$@"
    ;;
*)
    sed -n '2,7s/^#//p' "$self" >&2
    exit 2
    ;;
esac
