# SPDX-FileCopyrightText: the miniSP contributors
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2154
# Sourced by emulate_cluster: Slurm's daemons on the emulated hosts. munged and slurmctld run on node0, a slurmd on each
# host; all configuration, state and logs lie in the folder $work, and everything runs in the hosts' namespaces, with
# which it ends. Uses on_host and here, fail, work, hosts, ranks_per_host and subnet of the script that sources it.

require_slurm() {
  local tool
  for tool in munged slurmctld slurmd sbatch srun; do
    # Daemons lie in a folder that is in root's path only.
    PATH=$PATH:/usr/sbin command -v "$tool" >/dev/null ||
      fail 3 "needs the program '$tool' (Debian: apt-get install slurmctld slurmd slurm-client munge)"
  done
}

write_slurm_configuration() {
  local host
  mkdir -p "$work/state"
  (umask 077 && head -c 1024 /dev/urandom >"$work/munge.key")
  {
    cat <<CONF
ClusterName=minisp
# Numbers of jobs stand in names of their files, which have to differ from those of another run.
FirstJobId=$$
SlurmctldHost=node0($subnet.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# A job that is queued again waits for as long as credentials hold.
AuthInfo=socket=$work/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool/%n
# Of each host: PMIx names its folders after job and step.
TmpFS=$work/tmp/%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd-%n.pid
# Namespaces see no control groups; the hosts share this machine's cores, which there are fewer of than ranks.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
# Jobs that wait for a time are looked at every second, not every minute.
SchedulerParameters=sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
MpiDefault=pmix
ReturnToService=2
CONF
    for ((host = 0; host < hosts; ++host)); do
      mkdir -p "$work/tmp/node$host" "$work/spool/node$host"
      echo "NodeName=node$host NodeAddr=$subnet.$((host + 1)) CPUs=$ranks_per_host State=UNKNOWN"
    done
    echo "PartitionName=emulated Nodes=ALL Default=YES MaxTime=INFINITE State=UP"
  } >"$work/slurm.conf"
  # Not used, and not looked for either: slurmd refuses to start where it finds none.
  echo "CgroupPlugin=cgroup/v1" >"$work/cgroup.conf"
}

# Says why the daemons do not come up, with what they wrote last.
slurm_failed() {
  tail -n 5 "$work"/*.log >&2 || true
  fail 3 "Slurm does not start on the emulated hosts (the end of its logs stands above)"
}

start_slurm() {
  local host deadline daemon daemons=()
  write_slurm_configuration
  export SLURM_CONF=$work/slurm.conf PATH=$PATH:/usr/sbin
  "${here[@]}" munged --force --key-file="$work/munge.key" --socket="$work/munge.socket" \
    --origin="$subnet.1" --pid-file="$work/munged.pid" --log-file="$work/munged.log" --seed-file="$work/munged.seed" || slurm_failed
  "${here[@]}" slurmctld -D >"$work/slurmctld.log" 2>&1 &
  daemons+=($!)
  for ((host = 0; host < hosts; ++host)); do
    on_host "node$host"
    "${here[@]}" slurmd -D >"$work/slurmd-node$host.log" 2>&1 &
    daemons+=($!)
  done
  on_host node0
  disown "${daemons[@]}" # the shell has nothing to say when they are killed
  deadline=$((SECONDS + 60)) # they share a busy machine
  while [[ $SECONDS -lt $deadline ]]; do
    for daemon in "${daemons[@]}"; do kill -0 "$daemon" 2>/dev/null || slurm_failed; done
    if [[ $("${here[@]}" sinfo --noheader --Node --format=%t 2>/dev/null | grep -c '^idle$') -eq $hosts ]]; then return; fi
    sleep 0.1
  done
  slurm_failed
}
