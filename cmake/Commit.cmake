# CHORALE_COMMIT: the commit that is built, for chorale_build_info. Empty: that of the work tree, or
# "unknown" without git.
set(CHORALE_COMMIT "" CACHE STRING "The commit that is built; empty: that of the work tree")
if(CHORALE_COMMIT STREQUAL "")
  execute_process(
    COMMAND git -C ${CMAKE_SOURCE_DIR} rev-parse --short=12 HEAD
    OUTPUT_VARIABLE CHORALE_COMMIT
    OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_QUIET)
  if(CHORALE_COMMIT STREQUAL "")
    set(CHORALE_COMMIT "unknown")
  elseif(EXISTS ${CMAKE_SOURCE_DIR}/.git/logs/HEAD)  # changes with every commit
    set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
                 ${CMAKE_SOURCE_DIR}/.git/logs/HEAD)
  endif()
endif()
