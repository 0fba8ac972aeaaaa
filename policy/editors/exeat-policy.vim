" Syntax of exeat's policies, see exeat-policy(5).
"
" Put this file into ~/.vim/syntax/ and into ~/.vim/filetype.vim:
"     autocmd BufNewFile,BufRead *.policy,*.policy-test setfiletype exeat-policy

if exists("b:current_syntax")
  finish
endif

syntax case match
setlocal iskeyword=@,48-57,_,-
setlocal commentstring=#\ %s

syntax match   exeatComment    "\(^\|\s\)\@<=#.*$" contains=exeatTodo
syntax keyword exeatTodo       contained TODO FIXME
syntax region  exeatString     start=+"+ skip=+\\\\\|\\"+ end=+"+ oneline contains=exeatVariable
syntax match   exeatStatement  "^\s*\(include\|let\|policy\|set\)\>"
syntax match   exeatExpect     "^\s*expect\>" nextgroup=exeatAllow,exeatDeny,exeatAsk skipwhite
syntax match   exeatAllow      "\(^\s*\|expect\s\+\)\@<=allow\>"
syntax match   exeatDeny       "\(^\s*\|expect\s\+\)\@<=deny\>"
syntax match   exeatAsk        "\(^\s*\|expect\s\+\)\@<=\(ask\|tunnel\)\>"
syntax match   exeatMethod     "\s\@<=\([A-Z][A-Z,-]*\|\*\|fetch\|push\|lfs\)\(\s\)\@="
syntax match   exeatUrl        "\<https\?://\S*" contains=exeatVariable,exeatWildcard
syntax match   exeatRef        "\<refs/\S*" contains=exeatVariable,exeatWildcard
syntax match   exeatVariable   "\$\([A-Za-z_][A-Za-z0-9_]*\|{[A-Za-z_][A-Za-z0-9_]*}\|\$\)"
syntax match   exeatWildcard   contained "\*\+\|[{},]"
syntax match   exeatOperation  "\s\@<=\(create\|update\|delete\|force\|download\|upload\|lock\|any-object\|archive\|bundle-uri\|packfile-uris\)\>"
syntax match   exeatOption     "\s\@<=\(with\|note\|where\|and\|limit\|max-body\|max-size\|max-blob\|max-commits\|author\|committer\|signed\|options\|paths\|to\|also\)\>"
syntax match   exeatCondition  "\s\@<=\(json\|header\|query\|graphql\|body\)\>"
syntax match   exeatOperator   "\s\@<=\(==\|!=\|\~\|in\)\(\s\)\@="
syntax match   exeatContinue   "\\$"

highlight default link exeatComment   Comment
highlight default link exeatTodo      Todo
highlight default link exeatString    String
highlight default link exeatStatement PreProc
highlight default link exeatExpect    PreProc
highlight default link exeatAllow     Statement
highlight default link exeatDeny      Exception
highlight default link exeatAsk       Conditional
highlight default link exeatMethod    Type
highlight default link exeatUrl       Underlined
highlight default link exeatRef       Constant
highlight default link exeatVariable  Identifier
highlight default link exeatWildcard  Special
highlight default link exeatOperation Function
highlight default link exeatOption    Keyword
highlight default link exeatCondition Keyword
highlight default link exeatOperator  Operator
highlight default link exeatContinue  Special

let b:current_syntax = "exeat-policy"
