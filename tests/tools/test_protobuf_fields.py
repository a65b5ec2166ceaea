"""The table of protobuf fields, compared with the published Go modules."""

import shutil

import pytest
import update_protobuf_fields

import workshops
from windlass.k8s.protobuf import messages


@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
def test_table_is_that_of_the_published_modules() -> None:
    try:
        generated = update_protobuf_fields.generate()
    except workshops.WorkshopError as error:
        pytest.skip(f"cannot download the modules: {error}")
    assert update_protobuf_fields.FIELDS.read_text() == generated


def test_struct_tags_decide_what_json_omits() -> None:
    source = """
type Thing struct {
\tTypeMeta `json:""`
\t// Comment with `json:"x" protobuf:"bytes,9,opt,name=x"`
\tName string `json:"name" protobuf:"bytes,1,opt,name=name"`
\tNote string `json:"note,omitempty" protobuf:"bytes,2,opt,name=note"`
\tCount *int32 `json:"count,omitempty" protobuf:"varint,3,opt,name=count"`
\tSource `json:",inline" protobuf:"bytes,4,opt,name=source"`
\tStatus Status `json:"status,omitempty" protobuf:"bytes,5,opt,name=status"`
\tTime Time `json:"time,omitzero" protobuf:"bytes,6,opt,name=time"`
}
"""
    fields = update_protobuf_fields.go_structs(source)["Thing"]
    types = {
        "1": "string",
        "2": "string",
        "3": "int32",
        "4": "core.v1.Source",
        "5": "core.v1.Status",
        "6": "meta.v1.Time",
    }
    assert {number: fields[number].label(type_name) for number, type_name in types.items()} == {
        "1": "optional",
        "2": "omitempty",
        "3": "optional",
        "4": "inline",
        "5": "optional",
        "6": "omitempty",
    }


def test_table_has_the_kinds_of_the_controller() -> None:
    assert messages.table()["core.v1.Pod"][1] == ("metadata", "optional", "meta.v1.ObjectMeta")
    assert messages.table()["core.v1.Volume"][2].label is messages.Label.INLINE
