# Completion of tutti for bash: verbs and options from its help texts.
_tutti() {
  local cur=${COMP_WORDS[COMP_CWORD]} words word
  local -a verb=(tutti)
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}" ""; do
    words=$("${verb[@]}" --help 2>/dev/null)
    grep -q "^  $word " <<<"$words" && [[ $word == [a-z]* ]] || break
    verb+=("$word")
  done
  COMPREPLY=()
  if [[ ${COMP_WORDS[COMP_CWORD-1]} == @(-s|--set) ]]; then
    words=$(tutti options | sed -n 's/^  \([a-z0-9_.]*\.[a-z0-9_]*\)$/\1=/p')
    type compopt >/dev/null 2>&1 && compopt -o nospace 2>/dev/null
  elif [[ $cur == -* ]]; then
    words=$(sed -n 's/^  *\(-., \)\?\(--[a-z][a-z0-9-]*\).*/\2/p' <<<"$words")
  else
    words=$(sed -n 's/^  \([a-z]*\) .*/\1/p' <<<"$words")
  fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _tutti tutti
