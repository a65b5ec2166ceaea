# Starts the ranks: as many as the hosts have slots.
case $WORKER_HOSTS in
    # Pods that share the machine's network meet on its loopback device, which Open MPI does not use unasked.
    127.*) export OMPI_MCA_oob_tcp_if_include=lo OMPI_MCA_btl_tcp_if_include=lo ;;
esac
exec mpirun --hostfile "$WINDLASS_HOSTFILE" python3 /code/pi.py
