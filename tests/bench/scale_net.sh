# Machines that are namespaces of the network on this one, as root: a link each, to one switch, with a rate and a delay.
#     sh tests/bench/scale_net.sh up COUNT RATE DELAY     such as 4 1gbit 50us: of every way into the switch; a RATE of 0
#                                                         is as fast as it goes
#     sh tests/bench/scale_net.sh down
#     sh tests/bench/scale_net.sh mpirun COUNT COMMAND... a rank in each
# Open MPI starts its daemons by this script too, in place of ssh.
set -eu
net=10.77.21
name=tfm-scale
self=$(realpath "$0")
# shape I RATE DELAY: by netem, or in a kernel without it the rate alone, by a token bucket
shape() {
    ip netns exec $name-"$1" tc qdisc add dev eth0 root netem delay "$3" rate "$2" limit 100000 2>/dev/null ||
        { [ "$3" = 0 ] && ip netns exec $name-"$1" tc qdisc add dev eth0 root tbf rate "$2" burst 256k latency 100ms; } ||
        { echo "scale_net.sh: this kernel has no netem: give a DELAY of 0" >&2 && exit 1; }
}
case ${1-} in
up)
    sh "$self" down
    ip netns add $name
    ip -n $name link add switch type bridge
    ip -n $name link set switch up
    for i in $(seq "$2"); do
        ip netns add $name-"$i"
        ip -n $name link add port"$i" type veth peer name eth0 netns $name-"$i"
        ip -n $name link set port"$i" master switch up
        ip -n $name-"$i" addr add $net."$i"/24 dev eth0
        ip -n $name-"$i" link set eth0 up
        ip -n $name-"$i" link set lo up
        [ "$3" = 0 ] || shape "$i" "$3" "$4"
    done
    ;;
down)
    for i in $(ip netns list | sed -n "s/^\(${name}[-0-9]*\).*/\1/p"); do
        ip netns del "$i"
    done
    ;;
mpirun)
    count=$2
    shift 2
    hosts=$(seq -s , -f "$net.%g:1" "$count")
    # shellcheck disable=SC2016 # what unshare's shell reads
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
