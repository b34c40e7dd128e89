#!/usr/bin/env bash
# Makes a Debian 13 VM of Google Cloud serve a memory through Tailscale Funnel. The VM runs it as root at every start, so
# each step looks for what it wants to be so, and does only what is missing: a start that was cut short is made up for by
# the next one. What it is to do stands in the VM's metadata, where every process of the VM can read it, so no secret does:
#   memory-bridge-release               VERSION@sha256:DIGEST, as publishing a release prints it
#   memory-bridge-images                where releases are published, registry/name
#   memory-bridge-data-disk             the device name of the disk with the memory
#   memory-bridge-hostname, -tailnet    the two halves of the public name; without them only the VM itself gets in
#   memory-bridge-bucket                gets the nightly backups
#   memory-bridge-token-secret          the secret of Secret Manager that is told the token
#   memory-bridge-tailscale-tag         what the VM is in the tailnet
#   memory-bridge-tailscale-auth        workload-identity, with -tailscale-client-id and -tailscale-audience,
#                                       or auth-key, with -tailscale-secret, where the key is
set -euo pipefail
shopt -s inherit_errexit
umask 022
export DEBIAN_FRONTEND=noninteractive

metadata=http://${GCE_METADATA_HOST:-metadata.google.internal}/computeMetadata/v1/instance
secret_manager=${SECRET_MANAGER:-https://secretmanager.googleapis.com/v1}

# All that must outlive the VM is on the data disk; the boot disk can be made anew at any time.
home=/srv/memory-bridge
secrets=$home/secrets
first=$home/first
# Gone with each start of the VM.
journal_bounded=/run/memory-bridge-journal
attributes=(release images data-disk hostname tailnet bucket token-secret
  tailscale-tag tailscale-auth tailscale-client-id tailscale-audience tailscale-secret)
declare -A given
packages=(docker.io docker-cli docker-compose iptables jq unattended-upgrades zram-tools)
readonly RELEASE_WENT_BACK=4

say() { printf 'memory-bridge: %s\n' "$*"; }

fail() {
  say "$*" >&2
  exit 1
}

main() {
  local step
  for step in read_metadata bound_journal mount_data_disk configure_docker install_packages update_every_night swap run_docker \
    write_settings fetch_auth_key run_release back_up_every_night tell_token; do
    say "$step"
    "$step"
  done
  say "The start is complete."
}

# --- Means ----------------------------------------------------------------------------------------------------------

read_metadata() {
  local name
  for name in "${attributes[@]}"; do
    given[$name]=$(attribute "$name")
  done
  for name in release images data-disk; do
    [ -n "${given[$name]}" ] || fail "The metadata of this VM has no memory-bridge-$name."
  done
  [[ ${given[release]} =~ ^[^@]+@sha256:[0-9a-f]{64}$ ]] ||
    fail "memory-bridge-release must name a release with its digest, and ${given[release]} does not."
  public_name=${given[hostname]}${given[tailnet]:+.${given[tailnet]}}
  [[ $public_name =~ ^(|[^.]+\.[^.]+\.ts\.net)$ ]] ||
    fail "memory-bridge-hostname and memory-bridge-tailnet must make a name such as memory.tail1234.ts.net, not $public_name."
  [[ ${given[tailscale-auth]} =~ ^(|workload-identity|auth-key)$ ]] ||
    fail "memory-bridge-tailscale-auth must be workload-identity or auth-key, not ${given[tailscale-auth]}."
}

# Empty if there is none; whatever else goes wrong ends the start.
attribute() {
  local answer status=0
  answer=$(curl --silent --show-error --retry 10 --retry-connrefused --max-time 20 --header 'Metadata-Flavor: Google' \
    --write-out '\n%{http_code}' "$metadata/attributes/memory-bridge-$1") || status=$?
  case $status:${answer##*$'\n'} in
    0:200) printf '%s' "${answer%$'\n'*}" ;;
    0:404) ;;
    *) fail "The metadata server does not say what memory-bridge-$1 is." ;;
  esac
}

# The content comes on stdin. A file is there as a whole or not at all.
keep_file() {
  local file=$1
  mkdir -p "$(dirname "$file")"
  cat >"$file.new"
  mv "$file.new" "$file"
}

# In settings.env; other lines, as an administrator may have added them, stay.
keep_setting() {
  local file=$home/settings.env
  { grep -v "^$1=" "$file" 2>/dev/null || true; printf '%s=%s\n' "$1" "$2"; } | keep_file "$file"
}

default_setting() { grep -q "^$1=" "$home/settings.env" 2>/dev/null || keep_setting "$1" "$2"; }

# A call of Secret Manager in the name of the VM. In a pipe: an argument would be seen in the list of processes.
ask_secret_manager() {
  curl --silent --show-error --fail --max-time 30 --header 'Metadata-Flavor: Google' \
    "$metadata/service-accounts/default/token" | jq --raw-output '"Authorization: Bearer \(.access_token)"' |
    curl --silent --show-error --fail --retry 5 --max-time 30 --header @- "$secret_manager/$1" "${@:2}"
}

# --- The machine ----------------------------------------------------------------------------------------------------

bound_journal() {
  keep_file /etc/systemd/journald.conf.d/memory-bridge.conf <<'CONF'
[Journal]
SystemMaxUse=100M
MaxRetentionSec=30day
CONF
  [ -e "$journal_bounded" ] && return
  systemctl restart systemd-journald
  touch "$journal_bounded"
}

mount_data_disk() {
  local disk=/dev/disk/by-id/google-${given[data-disk]}
  mountpoint --quiet "$home" && return
  wait_for_disk "$disk"
  format_if_new "$disk"
  mkdir -p "$home"
  e2fsck -p "$disk" >/dev/null || [ "$?" = 1 ] || fail "The file system of $disk is damaged: see what e2fsck says of it."
  mount -o noatime,discard "$disk" "$home"
  resize2fs "$disk" >/dev/null 2>&1 || say "The file system does not fill $disk: see what resize2fs says."
}

wait_for_disk() {
  local end=$((SECONDS + 60))
  until [ -b "$1" ]; do
    [ "$SECONDS" -lt "$end" ] || fail "There is no disk $1: is it attached with that device name?"
    sleep 1
  done
}

# A disk that holds anything, a file system anywhere or a byte in its first 16 MiB, is never formatted, unless this script began to and was cut short: the file system is
# known as such only once it is whole.
format_if_new() {
  local begun=/var/lib/memory-bridge-formatting
  if blkid --probe --match-types ext4 "$1" >/dev/null; then
    rm -f "$begun"
    return
  fi
  [ -e "$begun" ] || is_empty "$1" || fail "The disk $1 holds something that is no ext4 file system: it is left as it is."
  touch "$begun"
  sync "$begun"
  mkfs.ext4 -q -F -m 0 -L memory-bridge "$1"
  rm "$begun"
}

is_empty() {
  [ -z "$(wipefs --no-act --noheadings "$1")" ] && cmp --quiet --bytes $((16 * 1024 * 1024)) "$1" /dev/zero
}

# Before Docker is there, so that it starts with it. It starts only when the disk is mounted, which is done here.
configure_docker() {
  keep_file /etc/docker/daemon.json <<JSON
{
  "data-root": "$home/docker",
  "log-driver": "json-file",
  "log-opts": {"max-size": "5m", "max-file": "2"},
  "live-restore": true,
  "userland-proxy": false
}
JSON
  keep_file /etc/systemd/system/docker.service.d/memory-bridge.conf <<CONF
[Unit]
ConditionPathIsMountPoint=$home
CONF
  systemctl daemon-reload
}

install_packages() {
  is_installed && return
  dpkg --configure --pending
  patiently apt-get update -qq
  patiently apt-get install -qq --yes --no-install-recommends --fix-broken "${packages[@]}"
}

# Debian's own timers may be at work on the packages just now.
patiently() {
  local tries=20
  until "$@"; do
    ((--tries)) || fail "$* fails again and again."
    sleep 15
  done
}

is_installed() {
  local states
  states=$(dpkg-query --show --showformat '${db:Status-Status}\n' "${packages[@]}" 2>/dev/null) && ! grep -qvx installed <<<"$states"
}

update_every_night() {
  keep_file /etc/apt/apt.conf.d/52memory-bridge <<'CONF'
APT::Periodic::Update-Package-Lists "1";
APT::Periodic::Unattended-Upgrade "1";
Unattended-Upgrade::Automatic-Reboot "true";
Unattended-Upgrade::Automatic-Reboot-Time "04:30";
Unattended-Upgrade::Remove-Unused-Dependencies "true";
CONF
}

# Compressed memory first, then a file.
swap() {
  local file=$home/swapfile
  printf 'ALGO=zstd\nPERCENT=50\n' | keep_file /etc/default/zramswap
  systemctl is-active --quiet zramswap || systemctl restart zramswap || say 'There is no compressed swap on this kernel.'
  swapon --show=NAME --noheadings | grep -qxF "$file" && return
  if [ ! -e "$file" ]; then
    fallocate --length 1G "$file.new"
    chmod 600 "$file.new"
    mkswap --quiet "$file.new"
    mv "$file.new" "$file"
  fi
  swapon "$file"
}

run_docker() {
  systemctl is-active --quiet docker || systemctl start docker
  [ "$(docker info --format '{{.DockerRootDir}}')" = "$home/docker" ] || systemctl restart docker
}

# --- The memory -----------------------------------------------------------------------------------------------------

write_settings() {
  keep_setting MEMORY_BRIDGE_IMAGES "${given[images]}"
  keep_setting FUNNEL "$public_name"
  keep_setting FUNNEL_TAG "${given[tailscale-tag]:-tag:memory-bridge}"
  keep_setting TS_CLIENT_ID "${given[tailscale-client-id]}"
  keep_setting TS_AUDIENCE "${given[tailscale-audience]}"
  default_setting HEALTH_INTERVAL 30s
  default_setting WAIT_SECONDS 600
}

# Whoever may read the file may not enter its folder, as with the other secrets, which the release makes once.
fetch_auth_key() {
  local key file=$secrets/tailscale_authkey
  [ "${given[tailscale-auth]}" = auth-key ] || return 0
  install --directory --mode 700 "$secrets"
  key=$(ask_secret_manager "${given[tailscale-secret]}/versions/latest:access" | jq --raw-output .payload.data | base64 --decode) ||
    key=
  if [ -z "$key" ]; then
    [ -s "$file" ] || fail 'The auth key cannot be read from Secret Manager.'
    say 'The auth key cannot be read from Secret Manager: the one from before stays.'
    return
  fi
  printf '%s' "$key" | keep_file "$file"
}

# A release that was gone back from is not tried again until the metadata name another one.
run_release() {
  local wanted=${given[release]} status=0
  [ -e "$home/current" ] || unpack_first
  if [ "$(cat "$home/release" 2>/dev/null)" = "$wanted" ]; then
    release up
    return
  fi
  release upgrade "$wanted" || status=$?
  case $status in
    0) ;;
    "$RELEASE_WENT_BACK") say "The release $wanted does not run here; the one before does." ;;
    *) exit "$status" ;;
  esac
  rm -rf "$first"
  printf '%s\n' "$wanted" | keep_file "$home/release"
  ln -sfn "$home/current/infra/compose/release" /usr/local/sbin/memory-bridge-release
}

# That of the release that runs; at first that of the one to come.
release() {
  local folder=$home/current
  [ -e "$folder" ] || folder=$first
  MEMORY_BRIDGE_HOME=$home "$folder/infra/compose/release" "$@"
}

unpack_first() {
  local image container
  image=${given[images]}-release:${given[release]}
  rm -rf "$first"
  mkdir "$first"
  docker image inspect "$image" >/dev/null 2>&1 || docker pull --quiet "$image"
  container=$(docker create "$image" none)
  docker cp "$container:/infra" "$first" >/dev/null
  docker rm "$container" >/dev/null
}

back_up_every_night() {
  BACKUP_BUCKET=${given[bucket]} BACKUP_FOLDER=$home/backups "$home/current/infra/vm/backup.sh" install
}

# So that an administrator need not get into the VM for it. Only when it is another one, for each version counts; and once
# more from a new VM, for which the secret may have been made anew.
tell_token() {
  local told=/var/lib/memory-bridge-token-told
  [ -n "${given[token-secret]}" ] || return 0
  sha256sum --check --status "$told" 2>/dev/null && return
  jq --raw-input --slurp '{payload: {data: @base64}}' "$secrets/auth_token" |
    ask_secret_manager "${given[token-secret]}:addVersion" --header 'Content-Type: application/json' --data @/dev/fd/3 3<&0 >/dev/null
  sha256sum "$secrets/auth_token" | keep_file "$told"
}

main
