"""Scripts with which shells complete: each asks the command itself what may stand next.

The words go marked with a `=`, so that no shell loses an empty one.
"""

from collections.abc import Callable

from memory_bridge.completions import FILES, Candidate

MARK = "="

_BASH = f"""\
_memory_bridge() {{
    local candidate words=("${{COMP_WORDS[@]:1:COMP_CWORD}}")
    COMPREPLY=()
    while IFS= read -r candidate; do
        if [[ $candidate != {FILES} ]]; then
            COMPREPLY+=("$candidate")
        elif ! compopt -o default 2>/dev/null; then
            while IFS= read -r candidate; do
                COMPREPLY+=("$candidate")
            done < <(compgen -f -- "${{COMP_WORDS[COMP_CWORD]}}")
        fi
    done < <("${{COMP_WORDS[0]/#\\~/$HOME}}" completion bash -- \\
        "${{words[@]/#/{MARK}}}" 2>/dev/null)
}}
complete -F _memory_bridge memory-bridge"""

_ZSH = f"""\
#compdef memory-bridge
_memory_bridge() {{
    local candidate
    local -a found
    for candidate in "${{(@f)$("${{words[1]/#\\~/$HOME}}" completion zsh -- \\
            "${{(@)words[2,CURRENT]/#/{MARK}}}" 2>/dev/null)}}"; do
        if [[ $candidate == {FILES} ]]; then
            _files
        elif [[ -n $candidate ]]; then
            found+=("$candidate")
        fi
    done
    (( $#found )) && _describe -V memory-bridge found
}}
compdef _memory_bridge memory-bridge"""

_FISH = f"""\
function __memory_bridge_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l command $words[1]
    set -e words[1]
    for candidate in ($command completion fish -- {MARK}$words 2>/dev/null)
        if test "$candidate" = {FILES}
            __fish_complete_path (commandline -ct)
        else
            printf '%s\\n' $candidate
        end
    end
end
complete -c memory-bridge -f -a '(__memory_bridge_complete)'"""

_POWERSHELL = f"""\
Register-ArgumentCompleter -Native -CommandName memory-bridge, memory-bridge.exe -ScriptBlock {{
    param($wordToComplete, $commandAst, $cursorPosition)
    $command, $words = $commandAst.CommandElements
    $before = @($words | Where-Object {{ $_ -and $_.Extent.EndOffset -lt $cursorPosition }} |
        ForEach-Object {{ "{MARK}$($_.Extent.Text)" }})
    & $command.Extent.Text completion powershell -- @before "{MARK}$wordToComplete" 2>$null |
        Where-Object {{ $_ -ne '{FILES}' }} | ForEach-Object {{
            $name, $meaning = $_ -split "`t", 2
            if (-not $meaning) {{ $meaning = $name }}
            [System.Management.Automation.CompletionResult]::new(
                $name, $name, 'ParameterValue', $meaning)
        }}
}}"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH, "powershell": _POWERSHELL}


def _bare(candidate: Candidate) -> str:
    return candidate.word


def _with_tab(candidate: Candidate) -> str:
    return f"{candidate.word}\t{candidate.meaning}" if candidate.meaning else candidate.word


def _with_colon(candidate: Candidate) -> str:
    word = candidate.word.replace(":", r"\:")
    return f"{word}:{candidate.meaning}" if candidate.meaning else word


_FORMS: dict[str, Callable[[Candidate], str]] = {
    "bash": _bare,
    "zsh": _with_colon,
    "fish": _with_tab,
    "powershell": _with_tab,
}


def line_of(candidate: Candidate, shell: str) -> str:
    return FILES if candidate.word == FILES else _FORMS[shell](candidate)
