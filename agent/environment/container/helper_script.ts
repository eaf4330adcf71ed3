/** Output passes on in blocks of so many bytes. */
export const BLOCK_BYTES = 65_536;

/** After so many rounds of killing that met new processes, all die. */
const MAX_ROUNDS = 10;

/**
 * The program that is process 1 of a container: a POSIX shell script, so that it runs in any image with a shell. It
 * reads requests from its standard input and ends with it, which ends the container, whatever it runs then.
 *
 * A request is a line `word stopper limit blocks tail input` and a line of shell. If `input` is 1, the shell's input
 * follows in chunks, each after a line with its number of bytes, and then a line `0`. The shell's line calls `x` to run a
 * program under a limit of seconds, or a function for files. The answer is what the line wrote to its standard output:
 * its first `blocks` blocks and its last `tail` bytes after these. Then comes `word status .notes oom_kills` and a line
 * end; and on standard error the same of its standard error, then the word. Words are random, so no output can be taken
 * for an answer.
 *
 * The line `stop stopper` ends what the call runs; the answer comes in any case. After the answer comes the line
 * `next word`, before the next request. So each line has one reader, and a `stop` that comes late cannot reach another
 * call. While a call runs, nothing that a program could read says its word. There are no signals: an engine may lose one,
 * and a shell may be about to wait when it comes.
 *
 * Of the notes, `a` says that the shell of the call lived to its end, `k` that a signal killed the program (a shell's
 * exit status alone does not tell that from `exit 137`), and `m` that there is no such program.
 *
 * At the end of a call every process is killed but the helper, those that read the output and the one that reads the
 * input; these end before the answer. No process is ever stopped: one that is just being started may stay so.
 */
const HELPER_SCRIPT = String.raw`
[ -z "$BASH_VERSION" ] || set +o posix
nl='
'
poked= fds=/proc/self/fd events=
for f in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do [ ! -r $f ] || events=$f; done
mkfifo /tmp/.svc_in /tmp/.svc_out /tmp/.svc_err /tmp/.svc_note || exit 9
# 3 requests, 4 standard error, 0 the call's input, 5 and 7 its output, 6 and 8 its errors, 9 its notes.
exec 3<&0 4>&2 2<>/tmp/.svc_in 5<>/tmp/.svc_out 6<>/tmp/.svc_err 9<>/tmp/.svc_note
rm -rf /tmp/.svc_in /tmp/.svc_out /tmp/.svc_err /tmp/.svc_note /tmp/.svc
exec 0<$fds/2 7<$fds/5 8<$fds/6 5>&- 6>&- 2>/dev/null

end_others() {
  found= started=
  for p in /proc/[0-9]*; do
    # One that has ended may have started another; one that lives and cannot be read, as without memory, is known here.
    if read -r s <"$p/stat"; then set -- ${"$"}{s##*) }; else set -- - -; fi
    p=${"$"}{p#/proc/}
    case " 1 $listener $readers " in *" $p "*) continue ;; esac
    case " $parents " in *" $2 "*) continue ;; esac
    left=1
    # One whose first thread has ended looks dead, but has others.
    [ "$1" != Z ] || [ "${"$"}{18}" -gt 1 ] || continue
    found=1
    case $killed in *" $p "*) ;; *) started=1 killed="$killed$p " ;; esac
    kill -9 $p
  done
  [ "$found" ]
} 2>/dev/null
end_all() {
  rounds=0 killed=' '
  while end_others; do
    [ -z "$started" ] || rounds=$((rounds + 1))
    # Some start others faster than one finds them. All end at once then, those that read too.
    [ $rounds -lt ${MAX_ROUNDS} ] || kill -9 -1
  done
}
# Whether any process lives.
others() {
  for p in /proc/[0-9]*; do
    [ "$p" != /proc/1 ] || continue
    left=1
    read -r s <"$p/stat" || continue
    set -- ${"$"}{s##*) }
    [ "$1" = Z ] && [ "${"$"}{18}" -le 1 ] || return 0
  done
  return 1
} 2>/dev/null
# Without a handler the shell would end. Programs must not inherit that signals are ignored.
trap 'poked=1' HUP INT QUIT TERM

keep() {
  dd bs=${BLOCK_BYTES} count=$blocks iflag=fullblock
  if [ $tail = 0 ]; then exec cat >/dev/null; else exec tail -c $tail; fi
}
listen() {
  if [ $input = 1 ]; then
    while IFS= read -r bytes && [ "$bytes" != 0 ]; do dd bs=$bytes count=1 iflag=fullblock >&2 2>/dev/null; done
    exec 2>/dev/null
  fi
  while IFS= read -r order; do
    case $order in "next $word") exit 0 ;; "stop $stopper") kill -9 $call ;; esac
  done
  kill -9 $call
  exit 1
}

path_of() {
  at=$1
  case $1 in
    */*) [ -f "$1" ] ;;
    *) IFS=:; for d in $PATH; do at=$d/$1; [ ! -f "$at" ] || break; done; unset IFS; [ -f "$at" ] ;;
  esac
}
# By its path: BusyBox would use its own hidden file for a name, and a hidden program cannot change its score.
path_of sh && sh=$at || exit 9
x() {
  path_of "$1" || { echo '! missing' >&9; return 127; }
  # What runs out of memory ends the program, and neither the helper nor what reads.
  (exec "$sh" -c '{ echo 1000 >/proc/self/oom_score_adj; } 2>/dev/null; exec setsid timeout -s KILL "$@"' \
    sh $limit "$@" 2>&6 6>&- 9>&-)
}

resolve() {
  at=/work left=$1 links=0
  case $left in /*) at= ;; esac
  while [ "$left" ]; do
    case $left in */*) part=${"$"}{left%%/*} left=${"$"}{left#*/} ;; *) part=$left left= ;; esac
    case $part in ''|.) continue ;; ..) at=${"$"}{at%/*}; continue ;; esac
    if [ -L "$at/$part" ]; then
      links=$((links + 1))
      [ $links -le 40 ] || return 3
      to=$(readlink -n "$at/$part"; echo .)
      to=${"$"}{to%.}
      case $to in /*) at= ;; esac
      left=$to/$left
    else at=$at/$part
    fi
  done
  case $at in /work|/work/*) ;; *) return 3 ;; esac
}
f_read() { resolve "$1" || return 3; [ -f "$at" ] || return 4; cat "$at" || return 4; }
f_write() {
  resolve "$1" || return 3
  [ ! -e "$at" ] || [ -f "$at" ] || return 5
  [ -d "${"$"}{at%/*}" ] || mkdir -p "${"$"}{at%/*}" || return 5
  cat >"$at" || return 5
}
f_list() {
  resolve "$1" || return 3
  [ -d "$at" ] && cd "$at" || return 4
  for f in * .[!.]* ..?*; do
    if [ -d "$f" ]; then printf '%s/\0' "$f"; elif [ -e "$f" ] || [ -L "$f" ]; then printf '%s\0' "$f"; fi
  done
}
f_files() {
  find . -type f -print0
  printf 'links\0'
  find . -type l -exec sh -c 'for f do
    to=$(readlink -f "$f")
    [ ! -L "$to" ] && [ -f "$to" ] || to=.
    printf "%s\0%s\0" "$f" "$to"
  done' sh {} +
}
f_all() { find . ! -type d -print0; }
f_pack() { tar -cf - "$@"; }
f_unpack() { tar -xpf -; }
f_open() {
  find . -type d ! -perm -700 -exec sh -c '
    printf "%s\0%s\0" "$(stat -c %a "$1")" "$1"
    chmod u+rwx "$1"
  ' sh {} \;
}
f_close() { while [ $# -gt 1 ]; do chmod "$1" "$2"; shift 2; done; }
f_restore() {
  kept=/tmp/.svc_kept
  rm -rf $kept && mkdir $kept && tar -C $kept -xpf - || return 1
  for f do
    d=/work left=$f at=/work/$f
    while :; do
      case $left in */*) d=$d/${"$"}{left%%/*} left=${"$"}{left#*/} ;; *) break ;; esac
      if [ -L "$d" ] || [ ! -d "$d" ]; then rm -rf "$d"; mkdir "$d" || return 1; fi
    done
    if [ -L "$kept/$f" ]; then
      if [ -L "$at" ] && [ "$(readlink "$at"; echo .)" = "$(readlink "$kept/$f"; echo .)" ]; then continue; fi
    elif [ -f "$at" ] && [ ! -L "$at" ] && cmp -s "$at" "$kept/$f" &&
      [ "$(stat -c %a "$at")" = "$(stat -c %a "$kept/$f")" ]; then continue
    fi
    printf '%s\0' "$f"
    rm -rf "$at" && cp -pP "$kept/$f" "$at" || return 1
  done
  rm -rf $kept
}
f_remove() { for f do rm -f "./$f" || return 1; done; }
# What programs of the same user may change of the helper, which further programs would inherit.
inherited() {
  cat /proc/1/limits
  while read -r line; do case $line in Cpus_allowed*) echo "$line" ;; esac; done </proc/1/status
  read -r s </proc/1/stat
  set -- ${"$"}{s##*) }
  echo "${"$"}{16} ${"$"}{17} ${"$"}{38} ${"$"}{39}"
}
at_start=$(inherited)
f_clean() {
  [ "$(inherited)" = "$at_start" ] || return 1
  for d in /work /tmp /dev/shm /dev/mqueue; do
    [ -d $d ] || continue
    if [ -O $d ]; then chmod 0755 $d; fi
    for f in $d/* $d/.[!.]* $d/..?*; do
      [ -e "$f" ] || [ -L "$f" ] || continue
      rm -rf "$f" || { chmod -R u+rwx "$f"; rm -rf "$f"; }
    done
    [ -z "$(ls -A $d)" ] || return 1
  done
  for f in msg sem shm; do
    lines=0
    while read -r line; do lines=$((lines + 1)); done </proc/sysvipc/$f
    [ $lines -le 1 ] || return 1
  done
  while read -r _ at _ how _; do
    case $at in /work|/tmp|/dev/shm|/dev/mqueue) continue ;; esac
    case $how in ro|ro,*) continue ;; esac
    # Devices, and what hides files of /proc, are open to all; a folder would keep what is put there.
    case $at in /proc/*|/dev/*) [ -d "$at" ] || continue ;; esac
    [ ! -w "$at" ] && [ ! -O "$at" ] || return 1
  done </proc/self/mounts
}

# Its memory and descriptors would let a program forge answers.
if (exec cat /proc/1/environ) >/dev/null; then echo ready exposed; else echo ready; fi
while :; do
  IFS= read -r head <&3 || { [ "$poked" ] || exit 0; poked=; continue; }
  IFS= read -r line <&3 || exit 0
  set -- $head
  word=$1 stopper=$2 limit=$3 blocks=$4 tail=$5 input=$6 left=
  exec 5>$fds/7 6>$fds/8
  { keep; } <&7 3<&- 4>&- 5>&- 6>&- 7<&- 8<&- 9>&- &
  out=$!
  { keep; } <&8 >&4 3<&- 4>&- 5>&- 6>&- 7<&- 8<&- 9>&- &
  err=$!
  # From another descriptor, since what a shell starts in the background has an empty input.
  if [ $input = 1 ]; then exec 2<&0; else exec 2</dev/null; fi
  {
    # Not before all of the helper has started: the call may take all processes.
    read -r go <&9
    eval "$line"
    echo "! alive $?" >&9
  } <&2 3<&- 4>&- 7<&- 8<&- >&5 2>&9 5>&- &
  call=$!
  if [ $input = 1 ]; then exec 2>$fds/0; else exec 2>/dev/null; fi
  { listen; } <&3 3<&- 4>&- 5>&- 6>&- 7<&- 8<&- 9>&- &
  listener=$!
  echo go >&9
  exec 2>/dev/null 5>&- 6>&-
  # A signal ends the wait, but not the call. The status is a note: a wait that a signal ends may take it along.
  while wait $call; kill -0 $call; do :; done
  readers="$out $err" parents="$readers $listener"
  end_all
  # What the call did not read; its writer is done then.
  [ $input = 0 ] || cat >/dev/null
  # What kills the readers leaves bytes that would be taken for the next call's.
  wait $out || cat <&7 >/dev/null
  wait $err || cat <&8 >/dev/null
  # All that is left, also what a program made of those that read: in one step of the kernel, in which nothing starts.
  kill -9 -1 2>/dev/null
  while others; do kill -9 -1; done 2>/dev/null
  # The dead count as processes until their parent, now the helper, has waited for a child younger than they are.
  [ -z "$left" ] || { : & wait $!; }
  echo '! end' >&9
  # Of a shell that was killed.
  notes= status=137 oom=0
  while IFS= read -r note <&9; do
    case $note in
      '! end') break ;;
      '! alive '*) notes=a$notes status=${"$"}{note#! alive } ;;
      '! missing') notes=m$notes ;;
      *) notes=k ;;
    esac
  done
  [ -z "$events" ] || while read -r key value; do [ "$key" != oom_kill ] || oom=$value; done <$events
  printf '%s' "$word" >&4
  echo "$word $status .$notes $oom"
  # The listener was killed: its lines are still there.
  wait $listener || while IFS= read -r order <&3 && [ "$order" != "next $word" ]; do :; done
done
`;

/**
 * Starts the helper as a copy of the shell that nobody may read. Such a process is not dumpable (proc(5)): programs of
 * the same user can neither open its memory and descriptors nor trace it. The shell itself opens its program, since
 * gVisor shows it to no other process. Nor does gVisor run what cannot be read: the helper is the shell itself there.
 */
const START_HIDDEN =
  "mkdir /tmp/.svc && exec 3</proc/self/exe && cat <&3 >/tmp/.svc/sh && chmod 111 /tmp/.svc/sh || exit 9; " +
  'exec 3<&-; /tmp/.svc/sh -c : 2>/dev/null && exec /tmp/.svc/sh -c "$0"; exec sh -c "$0"';

/** The first process of a container. */
export const HELPER_COMMAND: readonly string[] = ["sh", "-c", START_HIDDEN, HELPER_SCRIPT];

/** The programs that an image must have for it. */
export const HELPER_PROGRAMS = [
  ...["sh", "cat", "chmod", "cmp", "cp", "dd", "find", "ls", "mkdir", "mkfifo", "readlink", "rm"],
  ...["setsid", "stat", "tail", "tar", "timeout"],
] as const;

/** Exit statuses of the functions for files. */
export const FILE_STATUS = { outside: 3, absent: 4, unusable: 5 } as const;

/** Quotes a text for a line of the helper. It must have no NUL. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`).replaceAll("\n", `'"$nl"'`)}'`;
}
