# Texts of files as C code.

# The bytes of a file as an initializer, and a new run of cmake when the file changes.
function(tutti_text_bytes file out)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  set(${out} "{${bytes}0}" PARENT_SCOPE)
endfunction()

# tutti_embed_text(TARGET NAME FILE): a file as the string `const char NAME[]`.
function(tutti_embed_text target name file)
  tutti_text_bytes(${file} bytes)
  set(code "/* made by cmake/embed.cmake */\nextern const char ${name}[];\n")
  string(APPEND code "const char ${name}[] = ${bytes};\n")
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${name}.c CONTENT "${code}" @ONLY)
  target_sources(${target} PRIVATE ${CMAKE_BINARY_DIR}/${name}.c)
endfunction()

# tutti_embed(TARGET ROOT FILE...): the texts of files under ROOT, with names relative to ROOT, as
# tt_embedded_files of slurm/script.h.
function(tutti_embed target root)
  set(code "/* made by cmake/embed.cmake */\n#include \"slurm/script.h\"\n#include <stddef.h>\n")
  set(rows "")
  set(number 0)
  foreach(file ${ARGN})
    tutti_text_bytes(${root}/${file} bytes)
    string(APPEND code "static const char text${number}[] = ${bytes};\n")
    string(APPEND rows "    {\"${file}\", text${number}},\n")
    math(EXPR number "${number} + 1")
  endforeach()
  string(APPEND code "const tt_embedded_file tt_embedded_files[] = {\n${rows}    {NULL, NULL}};\n")
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/embedded.c CONTENT "${code}" @ONLY)
  target_sources(${target} PRIVATE ${CMAKE_BINARY_DIR}/embedded.c)
endfunction()
