# Compiler, linker and sanitizer settings shared by every target.
if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(LLMD_CCACHE ccache)
  if(LLMD_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${LLMD_CCACHE})
  endif()
endif()

add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Werror=return-type -Wno-missing-field-initializers
  -fno-omit-frame-pointer -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  add_compile_options(-Wthread-safety)
  add_link_options(-fuse-ld=lld)
else()
  find_program(LLMD_MOLD mold)
  if(LLMD_MOLD)
    add_link_options(-fuse-ld=mold)
  endif()
endif()

if(LLMD_SANITIZE)
  add_compile_options(-fsanitize=${LLMD_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${LLMD_SANITIZE})
  # The address sanitizer finds the same faults; their checks take a fifth of the compile time.
  if(LLMD_SANITIZE MATCHES address AND NOT LLMD_FUZZ)
    add_compile_options(-fno-sanitize=null,object-size)
  endif()
endif()
if(LLMD_FUZZ)
  # Arenas hide overruns from the address sanitizer; spans check their own bounds.
  add_compile_options(-fsanitize=fuzzer-no-link -D_GLIBCXX_ASSERTIONS)
endif()

# Test code is compiled more often than it runs long: under a sanitizer it is not optimised. The checks for undefined
# behaviour are for what is under test; in the tests they would take a quarter of the compile time.
function(llmd_test_program target)
  if(LLMD_SANITIZE)
    target_compile_options(${target} PRIVATE -O0 -fno-sanitize=undefined)
  endif()
endfunction()

# What `llm_d_epp_info` and the log say about the build.
execute_process(COMMAND git rev-parse --short=12 HEAD WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
  OUTPUT_VARIABLE LLMD_COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
