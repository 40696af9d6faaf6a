//! Files that are cut off at any moment.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use parquet::data_type::Int64Type;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::writer::SerializedRowGroupWriter;
use parquet::schema::parser::parse_message_type;
use tempfile::TempDir;

use super::cells::Cells;
use super::names::{end_of, part_of, was_cut_off};
use super::recovery::recover;
use super::{Durability, FileError, PieceWriter};

fn begun(path: &Path, durability: Durability) -> Result<PieceWriter, FileError> {
    let schema = parse_message_type("message m { required int64 n; }").unwrap();
    let properties = WriterProperties::builder().set_created_by("tests".to_owned()).build();
    PieceWriter::create(path, Arc::new(schema), Arc::new(properties), durability)
}

fn put<W: std::io::Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    numbers: &[i64],
) -> parquet::errors::Result<()> {
    let mut column = group.next_column()?.unwrap();
    column.typed::<Int64Type>().write_batch(numbers, None, None)?;
    column.close()
}

fn about(text: &str) -> Vec<KeyValue> {
    vec![KeyValue::new("about".to_owned(), text.to_owned())]
}

/// What is in the file: its metadata and its numbers.
fn read(path: &Path) -> (String, Vec<i64>) {
    let file = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
    let about = file.metadata().file_metadata();
    let text = about.key_value_metadata().unwrap()[0].value.clone().unwrap();
    let mut numbers = Vec::new();
    for group in 0..file.num_row_groups() {
        let group = file.get_row_group(group).unwrap();
        let rows = group.metadata().num_rows() as usize;
        let mut cells = Cells::<Int64Type>::of(group.get_column_reader(0).unwrap(), 0).unwrap();
        cells.fill(rows).unwrap();
        numbers.extend((0..rows).map(|_| *cells.required().unwrap()));
    }
    assert_eq!(about.num_rows() as usize, numbers.len());
    (text, numbers)
}

#[test]
fn a_row_group_that_is_not_complete_is_recovered_and_written_once() {
    for durability in [Durability::Power, Durability::Process] {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("f");
        let mut writer = begun(&path, durability).unwrap();
        writer.write_group(|group| put(group, &[1, 2])).unwrap();
        writer.checkpoint(about("two")).unwrap();
        writer.checkpoint_with(about("three"), |group| put(group, &[3])).unwrap();
        writer.checkpoint_with(about("five"), |group| put(group, &[3, 4, 5])).unwrap();
        // What comes after the checkpoint is lost.
        writer.write_group(|group| put(group, &[3, 4, 5, 6])).unwrap();
        let copy = folder.path().join("copy");
        fs::copy(part_of(&path), part_of(&copy)).unwrap();
        fs::copy(end_of(&path), end_of(&copy)).unwrap();
        assert!(was_cut_off(&copy));
        recover(&copy).unwrap();
        assert_eq!(read(&copy), ("five".to_owned(), vec![1, 2, 3, 4, 5]));
        writer.finish(about("all")).unwrap();
        assert_eq!(read(&path), ("all".to_owned(), vec![1, 2, 3, 4, 5, 6]));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}

#[test]
fn what_was_not_secured_is_removed_and_what_was_stays() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("f");
    drop(begun(&path, Durability::Process).unwrap());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let mut writer = begun(&path, Durability::Process).unwrap();
    assert!(matches!(begun(&path, Durability::Process), Err(FileError::InUse)));
    writer.checkpoint(about("none")).unwrap();
    assert!(matches!(recover(&path), Err(FileError::InUse)));
    drop(writer);
    assert!(matches!(begun(&path, Durability::Process), Err(FileError::CutOff)));
    recover(&path).unwrap();
    assert_eq!(read(&path), ("none".to_owned(), vec![]));
}

#[test]
fn parts_that_do_not_fit_are_damage() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("f");
    assert!(matches!(recover(&path), Err(FileError::Io { action: "recovered", .. })));
    fs::write(part_of(&path), "PAR1").unwrap();
    for (end, reason) in [(vec![1, 2], "too short"), (vec![9; 8], "its end says")] {
        fs::write(end_of(&path), end).unwrap();
        let error = recover(&path).unwrap_err();
        assert!(matches!(&error, FileError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
}
