#!/usr/bin/env bash
# Backups of a memory, with the stack of containers or without: taken while it is in use, kept in a folder and a
# bucket, and put back.
#   backup.sh                 takes one, as systemd does each night, and deletes those in the folder that are too old
#   backup.sh list            those in the folder
#   backup.sh restore WHICH [--stay-down]
#                             puts one back: latest, a file, or - for one that comes on stdin; with --stay-down whoever
#                             calls it starts the servers again
#   backup.sh install         has systemd take one each night, with the settings of now
# Settings are in the environment, or else in /etc/memory-bridge/backup.conf, which `install` writes:
#   BACKUP_FOLDER=/var/backups/memory-bridge
#   BACKUP_DAYS=7                   for how long they are kept there
#   BACKUP_BUCKET=NAME              in Google Cloud Storage, to which this machine's own identity may add
#   COMPOSE_PROJECT_NAME=NAME       of the stack, if it is not memory-bridge
# and without containers:
#   MEMORY_BRIDGE=/path/to/memory-bridge
#   MCP_MEMORY_STORE_DIR=DIR        where its memory.db is
#   MEMORY_BRIDGE_UNIT=NAME         the service that a restore stops and starts
set -euo pipefail
umask 077

here=$(cd "$(dirname "$0")" && pwd)
names=(BACKUP_FOLDER BACKUP_DAYS BACKUP_BUCKET COMPOSE_PROJECT_NAME
  MEMORY_BRIDGE MCP_MEMORY_STORE_DIR MEMORY_BRIDGE_UNIT)
settings=${BACKUP_SETTINGS:-/etc/memory-bridge/backup.conf}
metadata=http://${GCE_METADATA_HOST:-metadata.google.internal}
storage=${BACKUP_STORAGE:-https://storage.googleapis.com}
start_seconds=180

fail() {
  printf 'backup.sh: %s\n' "$*" >&2
  exit 1
}

say() { printf '%s\n' "$*"; }

read_settings() {
  local name value
  [ -r "$settings" ] || return 0
  while IFS='=' read -r name value; do
    [[ " ${names[*]} " != *" $name "* ]] || [ -n "${!name:-}" ] || export "$name=$value"
  done <"$settings"
}

choose() {
  folder=${BACKUP_FOLDER:-/var/backups/memory-bridge}
  days=${BACKUP_DAYS:-7}
  [[ $days =~ ^[1-9][0-9]{0,3}$ ]] || fail "BACKUP_DAYS must be a number of days from 1 to 9999, not $days."
  if [ -n "${MEMORY_BRIDGE:-}" ]; then
    at=host
    data=${MCP_MEMORY_STORE_DIR:?names the folder of the memory}
    [ -d "$data" ] || fail "There is no folder $data (MCP_MEMORY_STORE_DIR)."
  else
    at=containers
    data=/data
    store=$(container_of store)
    [ -n "$store" ] || fail "There is no stack: start it (make up), or name its COMPOSE_PROJECT_NAME or MEMORY_BRIDGE."
    postgres=$(is_on_postgres && container_of postgres) || postgres=
  fi
}

# Only one at a time.
lock() {
  mkdir -p "$folder"
  exec 9>"$folder/.lock"
  flock --nonblock 9 || fail 'Another backup or restore is under way.'
}

containers_of() {
  docker ps --all --quiet --filter "label=com.docker.compose.project=${COMPOSE_PROJECT_NAME:-memory-bridge}" \
    --filter "label=com.docker.compose.service=$1" --filter label=com.docker.compose.oneoff=False
}

container_of() { containers_of "$1" | head -n 1; }

is_on_postgres() { docker inspect --format '{{json .Config.Env}}' "$store" | grep -q '"MCP_DATABASE_URL_FILE='; }

# Runs a command where the memory is, as the user whose it is.
inside() {
  local owner
  if [ "$at" = containers ]; then
    docker exec "$store" "$@"
    return
  fi
  owner=$(stat --format %U "$data")
  if [ "$owner" = "$(id -un)" ]; then
    MCP_MEMORY_STORE_DIR=$data "$@"
  else
    MCP_MEMORY_STORE_DIR=$data runuser --user "$owner" -- "$@"
  fi
}

# --- Taking one -----------------------------------------------------------------------------------------------------

take() {
  local file suffix=db.gz
  [ -z "${postgres:-}" ] || suffix=dump
  file=$folder/memory-$(date --utc +%Y%m%dT%H%M%SZ).$suffix
  part=$folder/.part
  trap 'rm -f "$part"' EXIT
  if [ -n "${postgres:-}" ]; then
    copy_postgres "$part"
  else
    copy_sqlite "$part"
  fi
  mv "$part" "$file"
  say "$file is whole, $(stat --format %s "$file") bytes."
  [ -z "${BACKUP_BUCKET:-}" ] || upload "$file"
  # Only now: nights without a backup must not end in a folder without one.
  find "$folder" -maxdepth 1 -name 'memory-*' -mmin "+$((days * 1440))" -print -delete | sed 's/$/ was too old and is deleted./'
}

# The command has looked through its copy before it gave it a name; what has come here must be the same.
copy_sqlite() {
  local sum
  copy=$data/.backup.db
  trap 'rm -f "$part"; inside rm -f "$copy"' EXIT
  inside "${MEMORY_BRIDGE:-memory-bridge}" backup --force "$copy"
  sum=$(inside sha256sum "$copy")
  inside cat "$copy" | gzip >"$1"
  inside rm -f "$copy"
  [ "$(gunzip --stdout <"$1" | sha256sum)" = "${sum%% *}  -" ] || fail 'The copy did not arrive whole; nothing was kept.'
}

copy_postgres() {
  docker exec "$postgres" pg_dump --username memory --dbname memory --format custom >"$1"
  is_whole_dump "$1" || fail 'The dump cannot be read again; nothing was kept.'
}

is_whole_dump() { docker exec --interactive "$postgres" pg_restore --file /dev/null <"$1"; }

# The bucket compares the digest, and deletes by itself what is too old: this machine may only add.
upload() {
  local name=${1##*/}
  authorization | curl --silent --show-error --fail --retry "${BACKUP_TRIES:-5}" \
    --connect-timeout 20 --speed-limit 1000 --speed-time 60 --header @- \
    --header "Content-MD5: $(digest "$1")" --header 'Content-Type: application/octet-stream' \
    --upload-file "$1" "$storage/$BACKUP_BUCKET/$name" >/dev/null ||
    fail "$1 could not be added to the bucket $BACKUP_BUCKET; it stays where it is."
  say "gs://$BACKUP_BUCKET/$name has it too."
}

# In a pipe: an argument would be seen in the list of processes.
authorization() {
  local answer
  answer=$(curl --silent --show-error --fail --max-time 30 --header 'Metadata-Flavor: Google' \
    "$metadata/computeMetadata/v1/instance/service-accounts/default/token") ||
    fail 'This machine has no identity of Google Cloud that could be asked for.'
  [[ $answer =~ \"access_token\":[[:space:]]*\"([^\"]+)\" ]] || fail 'The identity of this machine has no token.'
  printf 'Authorization: Bearer %s\n' "${BASH_REMATCH[1]}"
}

digest() {
  printf '%b' "$(md5sum <"$1" | head --bytes 32 | sed 's/../\\x&/g')" | base64
}

list() {
  [ -d "$folder" ] || fail "There is no folder $folder yet."
  find "$folder" -maxdepth 1 -name 'memory-*' -printf '%p %s bytes\n' | sort
}

# --- Putting one back -----------------------------------------------------------------------------------------------

restore() {
  local file
  [[ ${2:-} =~ ^(|--stay-down)$ ]] || fail "Say --stay-down or nothing after the backup, not $2."
  case ${1:-} in
    '') fail 'Say which: latest, a file, or - for stdin; "backup.sh list" shows those in the folder.' ;;
    latest) file=$(find "$folder" -maxdepth 1 -name 'memory-*' | sort | tail -n 1) ;;
    -) file=$folder/.incoming && trap 'rm -f "$folder/.incoming"' EXIT && cat >"$file" ;;
    *) file=$1 ;;
  esac
  [ -s "$file" ] || fail "There is no backup ${file:-in $folder}."
  look_at "$file"
  stop_servers
  trap 'start_servers; rm -f "$folder/.incoming"' EXIT
  if [ -n "${postgres:-}" ]; then
    restore_postgres "$file"
  else
    unpacked "$file" | put_back
  fi
  trap 'rm -f "$folder/.incoming"' EXIT
  [ -n "${2:-}" ] || start_servers
  say 'The memory is back as it was then, tokens included: revoke again what was revoked since.'
}

# Before anything is stopped.
look_at() {
  local kind
  kind=$(head --bytes 5 "$1" | tr -d '\0')
  if [ -n "${postgres:-}" ]; then
    [ "$kind" = PGDMP ] || fail "$1 is no dump of Postgres, where this memory is."
    is_whole_dump "$1" || fail "$1 is damaged."
  else
    [ "$kind" != PGDMP ] || fail "$1 is a dump of Postgres, and this memory is in a file: make up PROFILE=extended first."
    unpacked "$1" >/dev/null 2>&1 || fail "$1 is damaged."
    kind=$(unpacked "$1" 2>/dev/null | head --bytes 15 | tr -d '\0') || true # unpacking ends where nobody reads on
    [ "$kind" = 'SQLite format 3' ] || fail "$1 is no backup of a memory."
  fi
}

unpacked() {
  if [ "$(od -An -N2 -tx1 "$1")" = ' 1f 8b' ]; then gunzip --stdout <"$1"; else cat "$1"; fi
}

# The command looks through the backup first, and keeps what was there under another name.
put_back() {
  # shellcheck disable=SC2016  # the shell inside knows them
  local script='cat >"$0" && "$1" restore "$0"; code=$?; rm -f "$0"; exit $code' image
  if [ "$at" = host ]; then
    inside sh -c "$script" "$data/.restore.db" "$MEMORY_BRIDGE"
    return
  fi
  image=$(docker inspect --format '{{.Image}}' "$store")
  docker run --rm --interactive --init --network none --read-only --tmpfs /tmp --cap-drop ALL \
    --security-opt no-new-privileges:true --volumes-from "$store" "$image" \
    sh -c "$script" "$data/.restore.db" memory-bridge
}

# What was there lies beside the backups, under a name that is not theirs. Without the last word, which comes only after
# a whole dump, Postgres takes all of it back.
restore_postgres() {
  local replaced
  replaced=$folder/replaced-$(date --utc +%Y%m%dT%H%M%SZ).dump
  mkdir -p "$folder"
  copy_postgres "$replaced"
  say "What was there before is now $replaced."
  {
    say 'BEGIN; DROP SCHEMA IF EXISTS memory_bridge CASCADE;'
    docker exec --interactive "$postgres" pg_restore --file - <"$1"
    say 'COMMIT;'
  } | docker exec --interactive "$postgres" psql --username memory --dbname memory --no-psqlrc --quiet \
    --set ON_ERROR_STOP=1 --output /dev/null
}

stop_servers() {
  if [ "$at" = containers ]; then
    { containers_of gateway; containers_of embedder; containers_of store; } | xargs docker stop >/dev/null
  elif [ -n "${MEMORY_BRIDGE_UNIT:-}" ]; then
    systemctl stop "$MEMORY_BRIDGE_UNIT"
  fi
}

start_servers() {
  local gateway
  if [ "$at" = containers ]; then
    docker start "$store" >/dev/null
    wait_for "$store"
    { containers_of gateway; containers_of embedder; } | xargs docker start >/dev/null
    for gateway in $(containers_of gateway); do wait_for "$gateway"; done
  elif [ -n "${MEMORY_BRIDGE_UNIT:-}" ]; then
    systemctl start "$MEMORY_BRIDGE_UNIT"
  fi
}

wait_for() {
  local end=$((SECONDS + start_seconds))
  until [ "$(docker inspect --format '{{.State.Health.Status}}' "$1")" = healthy ]; do
    [ "$SECONDS" -lt "$end" ] || fail "$(docker inspect --format '{{.Name}}' "$1") does not come up: see \`make logs\`."
    sleep 1
  done
}

# --- Each night -----------------------------------------------------------------------------------------------------

install_timer() {
  local units=${SYSTEMD_FOLDER:-/etc/systemd/system} unit name
  mkdir -p "$(dirname "$settings")"
  for name in "${names[@]}"; do
    [ -z "${!name:-}" ] || say "$name=${!name}"
  done >"$settings.new"
  mv "$settings.new" "$settings"
  for unit in memory-bridge-backup.service memory-bridge-backup.timer; do
    sed "s|/opt/memory-bridge/infra/vm|$here|; s|/etc/memory-bridge/backup.conf|$settings|" "$here/$unit" >"$units/$unit"
    chmod 644 "$units/$unit"
  done
  systemctl daemon-reload
  systemctl enable --now memory-bridge-backup.timer
}

read_settings
case ${1:-take} in
  take) choose && lock && take ;;
  list) choose && list ;;
  restore) choose && lock && restore "${@:2}" ;;
  install) install_timer ;;
  *) fail 'Say what to do: list, restore or install, or nothing for a backup now.' ;;
esac
