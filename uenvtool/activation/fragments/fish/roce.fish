set -l ue_roce_gid_index ''
set -l ue_roce_hca @HCA@
set -l ue_roce_note ''
ue_gid
