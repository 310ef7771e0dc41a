
# The running router completes the words behind "volley ctl" and vppctl.
_volley_or_router() {
    local cur words cword i socket=()
    _get_comp_words_by_ref -n : cur words cword
    case ${words[0]##*/} in
        *vppctl) i=1 ;;
        *)
            if [[ ${words[1]} == bench && $cword -ge 2 ]] && _have volley-bench; then
                _completion_loader volley-bench 2>/dev/null
                COMP_WORDS=(volley-bench "${COMP_WORDS[@]:2}")
                ((COMP_CWORD -= 1))
                _volley-bench volley-bench "$2" "$3"
                return
            fi
            if [[ ${words[1]} != ctl || $cword -lt 2 ]]; then
                _volley "$@"
                return
            fi
            i=2
            ;;
    esac
    # The client's own options come first.
    while ((i < cword)); do
        case ${words[i]} in
            -s | --socket)
                socket=(-s "${words[i + 1]}")
                ((i += 2))
                ;;
            -*) ((i += 1)) ;;
            *) break ;;
        esac
    done
    if ((i > cword)); then
        COMPREPLY=($(compgen -f -- "$cur"))
    elif [[ $i -eq $cword && $cur == -* ]]; then
        COMPREPLY=($(compgen -W "--socket --json --keep-going --help" -- "$cur"))
    else
        mapfile -t COMPREPLY < <(volley complete "${socket[@]}" -- "${words[@]:i:cword - i + 1}" 2>/dev/null)
        __ltrim_colon_completions "$cur"
    fi
}
complete -F _volley_or_router -o bashdefault -o default volley vppctl
