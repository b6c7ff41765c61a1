//! What `verbena sweep` needs beside the study itself: a line of progress, and the script of a Slurm array.

pub mod script;
