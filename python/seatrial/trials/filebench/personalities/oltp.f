# A database under short transactions: readers of pages, writers of dirty pages, one log.
# Parameters as documented for Filebench's OLTP personality: 200 readers, 10 writers of batches of
# 100 pages, pages of 2 KiB, log writes of 256 KiB, all writes durable (O_DSYNC) and asynchronous.
# A reader that has read posts to the writers; these write once enough has been posted.

set $dir=/tmp
set $nshadows=200
set $ndbwriters=10
set $nfiles=10
set $filesize=10m
set $nlogfiles=1
set $logfilesize=10m
set $iosize=2k
set $logiosize=256k
set $workingset=0
set $usermode=200000
set $memperthread=1m
set $directio=0
set $eventrate=0

eventgen rate=$eventrate

define fileset name=tables, path=$dir, size=$filesize, entries=$nfiles, dirwidth=1024, prealloc=100, reuse
define fileset name=log, path=$dir, size=$logfilesize, entries=$nlogfiles, dirwidth=1024, prealloc=100, reuse

define process name=logwriter, instances=1
{
  thread name=logwriter, memsize=$memperthread, useism
  {
    flowop aiowrite name=log-write, filesetname=log, iosize=$logiosize, random, directio=$directio, dsync
    flowop aiowait name=log-settle
    flowop semblock name=log-wait, value=3200, highwater=1000
  }
}

define process name=pagewriter, instances=$ndbwriters
{
  thread name=pagewriter, memsize=$memperthread, useism
  {
    flowop aiowrite name=page-write, filesetname=tables, iosize=$iosize, workingset=$workingset,
      random, iters=100, opennext, directio=$directio, dsync
    flowop hog name=page-think, value=10000
    flowop semblock name=page-wait, value=1000, highwater=2000
    flowop aiowait name=page-settle
  }
}

define process name=reader, instances=$nshadows
{
  thread name=reader, memsize=$memperthread, useism
  {
    flowop read name=page-read, filesetname=tables, iosize=$iosize, workingset=$workingset,
      random, opennext, directio=$directio
    flowop hog name=reader-think, value=$usermode
    flowop sempost name=post-log, value=1, target=log-wait, blocking
    flowop sempost name=post-pages, value=1, target=page-wait, blocking
    flowop eventlimit name=reader-rate
  }
}

run 60
