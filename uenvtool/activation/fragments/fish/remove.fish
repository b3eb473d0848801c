function ue_remove --no-scope-shadowing
    ue_require $argv[1] '' $argv[2]
end
