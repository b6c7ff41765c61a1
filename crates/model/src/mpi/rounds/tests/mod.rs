mod by_name;
mod chosen_by_size;
mod oracle;
mod shipped;
