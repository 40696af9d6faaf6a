//! Writes row group by row group.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{
    FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{SchemaDescriptor, TypePtr};

use super::FileError;
use super::names::{is_own, make, part_of, remove_end, was_cut_off};
use super::recovery::write_end;

/// The mark that a Parquet file begins with.
const MAGIC_BYTES: i64 = 4;

/// The failures that a checkpoint survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// A loss of power: files are synced.
    Power,
    /// The end of the process: no request waits for the disk.
    Process,
}

/// Writes one file.
#[derive(Debug)]
pub struct PieceWriter {
    path: PathBuf,
    part: PathBuf,
    schema: TypePtr,
    durability: Durability,
    file: SerializedFileWriter<BufWriter<File>>,
    marks: Marks,
}

/// A row group that was written in memory, perhaps by another thread, for [`PieceWriter::append`].
#[derive(Debug)]
pub struct Group {
    bytes: Bytes,
    about: RowGroupMetaData,
}

impl Group {
    /// Writes a row group in memory.
    ///
    /// # Errors
    ///
    /// When its columns are not those of the schema.
    pub fn write<R>(
        schema: TypePtr,
        properties: WriterPropertiesPtr,
        write: impl FnOnce(&mut SerializedRowGroupWriter<'_, Vec<u8>>) -> ParquetResult<R>,
    ) -> Result<(Group, R), FileError> {
        let mut apart = SerializedFileWriter::new(Vec::new(), schema, properties)?;
        let mut group = apart.next_row_group()?;
        let written = write(&mut group)?;
        let about = group.close()?.as_ref().clone();
        let bytes = Bytes::from(apart.into_inner()?);
        Ok((Group { bytes, about }, written))
    }
}

/// The files to remove when a writer ends.
#[derive(Debug)]
struct Marks {
    part: PathBuf,
    /// Whether the part has become the file.
    is_whole: bool,
    /// Whether its checkpoint can be recovered.
    has_end: bool,
}

impl PieceWriter {
    /// Begins a file.
    ///
    /// # Errors
    ///
    /// When the file cannot be made, another process writes one of its name, or one was cut off
    /// that can be recovered.
    pub fn create(
        path: &Path,
        schema: TypePtr,
        properties: WriterPropertiesPtr,
        durability: Durability,
    ) -> Result<PieceWriter, FileError> {
        let part = part_of(path);
        let refused = FileError::io("made");
        let cut_off = was_cut_off(path);
        let file = make(&part).map_err(&refused)?;
        if !is_own(&file, &part) {
            return Err(FileError::InUse);
        }
        if cut_off {
            return Err(FileError::CutOff);
        }
        file.set_len(0).map_err(&refused)?;
        let marks = Marks { part: part.clone(), is_whole: false, has_end: false };
        let file = SerializedFileWriter::new(BufWriter::new(file), schema.clone(), properties)?;
        Ok(PieceWriter { path: path.to_path_buf(), part, schema, durability, file, marks })
    }

    /// How long the file is so far.
    pub fn written_bytes(&self) -> u64 {
        self.file.bytes_written() as u64
    }

    /// Writes a row group.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn write_group<R>(
        &mut self,
        write: impl FnOnce(&mut SerializedRowGroupWriter<'_, BufWriter<File>>) -> ParquetResult<R>,
    ) -> Result<R, FileError> {
        let mut group = self.file.next_row_group()?;
        let written = write(&mut group)?;
        group.close()?;
        Ok(written)
    }

    /// Adds a row group that was written in memory.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn append(&mut self, group: &Group) -> Result<(), FileError> {
        let Group { bytes, about } = group;
        let mut own = self.file.next_row_group()?;
        for metadata in about.columns() {
            let column = ColumnCloseResult {
                bytes_written: metadata.compressed_size() as u64,
                rows_written: about.num_rows() as u64,
                metadata: metadata.clone(),
                bloom_filter: None,
                column_index: None,
                offset_index: None,
            };
            own.append_column(bytes, column)?;
        }
        own.close()?;
        Ok(())
    }

    /// Makes everything written so far recoverable, even if this process dies: see
    /// [`super::recovery::recover`].
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn checkpoint(&mut self, about: Vec<KeyValue>) -> Result<(), FileError> {
        let groups = self.file.flushed_row_groups().to_vec();
        self.write_end(&[], &groups, about)
    }

    /// Does the same with a row group that is not complete yet: it is written as a part of the end,
    /// and again with each following checkpoint until it is complete. Returns its size in bytes.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn checkpoint_with(
        &mut self,
        about: Vec<KeyValue>,
        write: impl FnOnce(&mut SerializedRowGroupWriter<'_, Vec<u8>>) -> ParquetResult<()>,
    ) -> Result<u64, FileError> {
        let properties = self.file.properties().clone();
        let mut apart = SerializedFileWriter::new(Vec::new(), self.schema.clone(), properties)?;
        let mut group = apart.next_row_group()?;
        write(&mut group)?;
        group.close()?;
        apart.flush().map_err(FileError::io("written"))?;
        let further_bytes = self.file.bytes_written() as i64 - MAGIC_BYTES;
        let mut groups = self.file.flushed_row_groups().to_vec();
        for group in apart.flushed_row_groups() {
            groups.push(shifted(group, further_bytes)?);
        }
        let body = apart.inner().get(MAGIC_BYTES as usize..).unwrap_or_default();
        self.write_end(body, &groups, about)?;
        Ok(body.len() as u64)
    }

    fn write_end(
        &mut self,
        body: &[u8],
        groups: &[RowGroupMetaData],
        about: Vec<KeyValue>,
    ) -> Result<(), FileError> {
        let mut end = body.to_vec();
        end.extend(self.footer(groups, about)?);
        let is_synced = self.durability == Durability::Power;
        let (file, path) = (&mut self.file, &self.path);
        file.flush()
            .and_then(|()| if is_synced { file.inner().get_ref().sync_data() } else { Ok(()) })
            .and_then(|()| write_end(path, file.bytes_written() as u64, &end, is_synced))
            .map_err(FileError::io("written"))?;
        self.marks.has_end = true;
        Ok(())
    }

    /// The bytes that follow these row groups, so that they are a file.
    fn footer(&self, groups: &[RowGroupMetaData], about: Vec<KeyValue>) -> ParquetResult<Vec<u8>> {
        let descriptor = SchemaDescriptor::new(self.schema.clone());
        let rows = groups.iter().map(RowGroupMetaData::num_rows).sum();
        let created_by = Some(self.file.properties().created_by().to_owned());
        let file = FileMetaData::new(1, rows, created_by, Some(about), Arc::new(descriptor), None);
        let mut bytes = Vec::new();
        let whole = ParquetMetaData::new(file, groups.to_vec());
        ParquetMetaDataWriter::new(&mut bytes, &whole).finish()?;
        Ok(bytes)
    }

    /// Completes the file.
    ///
    /// # Errors
    ///
    /// When the file cannot be written. Its last checkpoint can still be recovered.
    pub fn finish(self, about: Vec<KeyValue>) -> Result<(), FileError> {
        let PieceWriter { path, part, mut file, mut marks, .. } = self;
        about.into_iter().for_each(|each| file.append_key_value_metadata(each));
        let written = file.into_inner()?;
        written
            .into_inner()
            .map_err(|error| error.into_error())
            .and_then(|file| file.sync_all())
            .and_then(|()| std::fs::rename(&part, &path))
            .map_err(FileError::io("written"))?;
        marks.is_whole = true;
        if marks.has_end {
            remove_end(&path);
        }
        Ok(())
    }
}

impl Drop for Marks {
    /// An incomplete file is removed; its last checkpoint stays.
    fn drop(&mut self) {
        if !(self.is_whole || self.has_end) {
            // If it cannot be removed, nobody is left to report that to.
            let _ = std::fs::remove_file(&self.part);
        }
    }
}

/// A row group that was written elsewhere, moved by the given number of bytes.
fn shifted(group: &RowGroupMetaData, further_bytes: i64) -> Result<RowGroupMetaData, ParquetError> {
    let columns = group.columns().iter().map(|column| {
        let dictionary = column.dictionary_page_offset().map(|offset| offset + further_bytes);
        column
            .clone()
            .into_builder()
            .set_data_page_offset(column.data_page_offset() + further_bytes)
            .set_dictionary_page_offset(dictionary)
            .build()
    });
    let columns = columns.collect::<ParquetResult<Vec<_>>>()?;
    let file_offset = group.file_offset().unwrap_or(MAGIC_BYTES) + further_bytes;
    let builder = group.clone().into_builder().set_column_metadata(columns);
    builder.set_file_offset(file_offset).build()
}
