# Products and sums stay apart: fused, they would round once and the results would differ with the processor.
set_source_files_properties(${dir}/race.cc ${dir}/row_math.cc PROPERTIES COMPILE_OPTIONS "-ffp-contract=off;-Wno-psabi")
