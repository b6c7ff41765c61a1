//! The functions whose calls are read: numbers (`funclabels.h`), names and the layout of arguments
//! (`dumpiio.c`).
//!
//! A layout has a letter for each argument:
//!
//! | letter | argument |
//! |---|---|
//! | `i`, `h`, `b` | a number of 4, 2, 1 bytes; those of 2 and 1 are handles and codes |
//! | `q` | 8 bytes, skipped |
//! | `a`, `A` | a list of numbers, a list of such lists |
//! | `x`, `y` | `a` since version 0.6.9 and 0.6.8, before `i` |
//! | `d`, `e` | a list of numbers of 2 bytes, of 1 byte, skipped |
//! | `c`, `C` | a text, a list of texts, skipped; `I` is `C` with its length twice before 0.6.2 |
//! | `s` | statuses |
//! | `?N...;` | arguments only on the root: if the number of position 0 equals that of position N |

/// A function.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub number: u16,
    /// The name without `MPI_`.
    pub name: &'static str,
    pub layout: &'static str,
}

/// Ends the stream (`DUMPI_END_OF_STREAM`).
pub(super) const END: u16 = 293;
/// First number of markers that are not calls.
pub(super) const MARKERS: u16 = 291;

/// Returns the function with a number.
///
/// # Errors
///
/// Returns the reason if its calls are not read.
pub(super) fn function(number: u16) -> Result<&'static Function, String> {
    let found = ALL.binary_search_by_key(&number, |function| function.number);
    found.map(|index| &ALL[index]).map_err(|_| {
        let what = match number {
            129..=140 => "of dynamic processes",
            141..=154 | 187..=194 | 227..=229 => "of one-sided communication",
            168 | 199..=201 | 230..=289 => "of files",
            _ if number < MARKERS => "that is not read",
            _ => "that does not exist",
        };
        format!("a call of function {number}, {what}")
    })
}

const fn f(number: u16, name: &'static str, layout: &'static str) -> Function {
    Function {
        number,
        name,
        layout,
    }
}

const SEND: &str = "ihiih";
const BEGIN: &str = "ihiihi";

const ALL: &[Function] = &[
    f(0, "Send", SEND),
    f(1, "Recv", "ihiihs"),
    f(2, "Get_count", "shi"),
    f(3, "Bsend", SEND),
    f(4, "Ssend", SEND),
    f(5, "Rsend", SEND),
    f(6, "Buffer_attach", "i"),
    f(7, "Buffer_detach", "i"),
    f(8, "Isend", BEGIN),
    f(9, "Ibsend", BEGIN),
    f(10, "Issend", BEGIN),
    f(11, "Irsend", BEGIN),
    f(12, "Irecv", BEGIN),
    f(13, "Wait", "is"),
    f(14, "Test", "iis"),
    f(15, "Request_free", "i"),
    f(16, "Waitany", "iais"),
    f(17, "Testany", "iaiis"),
    f(18, "Waitall", "ias"),
    f(19, "Testall", "iais"),
    f(20, "Waitsome", "iaias"),
    f(21, "Testsome", "iaias"),
    f(22, "Iprobe", "iihis"),
    f(23, "Probe", "iihs"),
    f(24, "Cancel", "i"),
    f(25, "Test_cancelled", "si"),
    f(26, "Send_init", BEGIN),
    f(27, "Bsend_init", BEGIN),
    f(28, "Ssend_init", BEGIN),
    f(29, "Rsend_init", BEGIN),
    f(30, "Recv_init", BEGIN),
    f(31, "Start", "i"),
    f(32, "Startall", "ia"),
    f(33, "Sendrecv", "ihiiihiihs"),
    f(34, "Sendrecv_replace", "ihiiiihs"),
    f(35, "Type_contiguous", "ihh"),
    f(36, "Type_vector", "iiihh"),
    f(37, "Type_hvector", "iiihh"),
    f(38, "Type_indexed", "iaahh"),
    f(39, "Type_hindexed", "iaahh"),
    f(40, "Type_struct", "iaxdh"),
    f(41, "Address", "i"),
    f(42, "Type_extent", "hi"),
    f(43, "Type_size", "hi"),
    f(44, "Type_lb", "hi"),
    f(45, "Type_ub", "hi"),
    f(46, "Type_commit", "h"),
    f(47, "Type_free", "h"),
    f(48, "Get_elements", "shi"),
    f(49, "Pack", "ihiiih"),
    f(50, "Unpack", "iiiihh"),
    f(51, "Pack_size", "ihhi"),
    f(52, "Barrier", "h"),
    f(53, "Bcast", "ihih"),
    f(54, "Gather", "iihih?3ih"),
    f(55, "Gatherv", "iiihih?4aa;h"),
    f(56, "Scatter", "iihih?3ih"),
    f(57, "Scatterv", "iihihih?5aa"),
    f(58, "Allgather", "ihihh"),
    f(59, "Allgatherv", "iihaahh"),
    f(60, "Alltoall", "ihihh"),
    f(61, "Alltoallv", "iaahaahh"),
    f(62, "Reduce", "ihbih"),
    f(63, "Op_create", "ib"),
    f(64, "Op_free", "b"),
    f(65, "Allreduce", "ihbh"),
    f(66, "Reduce_scatter", "iahbh"),
    f(67, "Scan", "ihbh"),
    f(68, "Group_size", "hi"),
    f(69, "Group_rank", "hi"),
    f(70, "Group_translate_ranks", "hiaha"),
    f(71, "Group_compare", "hhb"),
    f(72, "Comm_group", "hh"),
    f(73, "Group_union", "hhh"),
    f(74, "Group_intersection", "hhh"),
    f(75, "Group_difference", "hhh"),
    f(76, "Group_incl", "hiah"),
    f(77, "Group_excl", "hiah"),
    f(78, "Group_range_incl", "hiAh"),
    f(79, "Group_range_excl", "hiAh"),
    f(80, "Group_free", "h"),
    f(81, "Comm_size", "hi"),
    f(82, "Comm_rank", "hi"),
    f(83, "Comm_compare", "hhb"),
    f(84, "Comm_dup", "hh"),
    f(85, "Comm_create", "hhh"),
    f(86, "Comm_split", "hiih"),
    f(87, "Comm_free", "h"),
    f(88, "Comm_test_inter", "hi"),
    f(89, "Comm_remote_size", "hi"),
    f(90, "Comm_remote_group", "hh"),
    f(91, "Intercomm_create", "hihiih"),
    f(92, "Intercomm_merge", "hih"),
    f(93, "Keyval_create", "h"),
    f(94, "Keyval_free", "h"),
    f(95, "Attr_put", "hi"),
    f(96, "Attr_get", "hii"),
    f(97, "Attr_delete", "hi"),
    f(98, "Topo_test", "hb"),
    f(99, "Cart_create", "hiaaih"),
    f(100, "Dims_create", "iiaa"),
    f(101, "Graph_create", "ihiaaih"),
    f(102, "Graphdims_get", "hii"),
    f(103, "Graph_get", "iihiiaa"),
    f(104, "Cartdim_get", "hi"),
    f(105, "Cart_get", "ihiaay"),
    f(106, "Cart_rank", "ihai"),
    f(107, "Cart_coords", "ihiia"),
    f(108, "Graph_neighbors_count", "hii"),
    f(109, "Graph_neighbors", "ihiia"),
    f(110, "Cart_shift", "hiiii"),
    f(111, "Cart_sub", "ihah"),
    f(112, "Cart_map", "hiaai"),
    f(113, "Graph_map", "ihiaai"),
    f(114, "Get_processor_name", "ci"),
    f(115, "Get_version", "ii"),
    f(116, "Errhandler_create", "h"),
    f(117, "Errhandler_set", "hh"),
    f(118, "Errhandler_get", "hh"),
    f(119, "Errhandler_free", "h"),
    f(120, "Error_string", "ici"),
    f(121, "Error_class", "ii"),
    f(122, "Wtime", ""),
    f(123, "Wtick", ""),
    f(124, "Init", "I"),
    f(125, "Finalize", ""),
    f(126, "Initialized", "i"),
    f(127, "Abort", "hi"),
    f(155, "Alltoallw", "iaadaadh"),
    f(156, "Exscan", "ihbh"),
    f(157, "Add_error_class", "i"),
    f(158, "Add_error_code", "ii"),
    f(159, "Add_error_string", "ic"),
    f(160, "Comm_call_errhandler", "hi"),
    f(161, "Comm_create_keyval", "h"),
    f(162, "Comm_delete_attr", "hh"),
    f(163, "Comm_free_keyval", "h"),
    f(164, "Comm_get_attr", "hhi"),
    f(165, "Comm_get_name", "hci"),
    f(166, "Comm_set_attr", "hh"),
    f(167, "Comm_set_name", "hc"),
    f(171, "Init_thread", "Cbb"),
    f(172, "Is_thread_main", "i"),
    f(173, "Query_thread", "b"),
    f(176, "Type_create_keyval", "h"),
    f(177, "Type_delete_attr", "hh"),
    f(178, "Type_dup", "hh"),
    f(179, "Type_free_keyval", "h"),
    f(180, "Type_get_attr", "hhi"),
    f(182, "Type_get_envelope", "hiiib"),
    f(183, "Type_get_name", "hci"),
    f(184, "Type_set_attr", "hh"),
    f(185, "Type_set_name", "hc"),
    f(186, "Type_match_size", "bih"),
    f(195, "Alloc_mem", "ih"),
    f(196, "Comm_create_errhandler", "h"),
    f(197, "Comm_get_errhandler", "hh"),
    f(198, "Comm_set_errhandler", "hh"),
    f(202, "Finalized", "i"),
    f(203, "Free_mem", ""),
    f(204, "Get_address", "i"),
    f(205, "Info_create", "h"),
    f(206, "Info_delete", "hc"),
    f(207, "Info_dup", "hh"),
    f(208, "Info_free", "h"),
    f(209, "Info_get", "hcici"),
    f(210, "Info_get_nkeys", "hi"),
    f(211, "Info_get_nthkey", "hic"),
    f(212, "Info_get_valuelen", "hcii"),
    f(213, "Info_set", "hcc"),
    f(216, "Request_get_status", "iis"),
    f(217, "Type_create_darray", "iiiaeaabhh"),
    f(218, "Type_create_hindexed", "iaahh"),
    f(219, "Type_create_hvector", "iiihh"),
    f(220, "Type_create_indexed_block", "iiahh"),
    f(221, "Type_create_resized", "hiih"),
    f(222, "Type_create_struct", "iaadh"),
    f(223, "Type_create_subarray", "iaaabhh"),
    f(224, "Type_get_extent", "hii"),
    f(225, "Type_get_true_extent", "hii"),
    f(291, "Function_enter", "q"),
    f(292, "Function_exit", "q"),
];
